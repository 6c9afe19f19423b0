"""What was decided and why: one record per decision, and the file that keeps them."""
