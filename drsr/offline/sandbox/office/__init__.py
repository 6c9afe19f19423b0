"""Office tasks: letters, calendars, stock, expenses, customer records."""
