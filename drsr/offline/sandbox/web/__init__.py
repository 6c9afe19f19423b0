"""Web tasks: shops, bookings, help desks, prices, broken links, on a site served on loopback."""
