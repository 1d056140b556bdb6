"""What is kept in the database: the outbox before the bus, and dead letters after it."""
