"""What whoever runs a server wants to know of it, and of the machine below."""
