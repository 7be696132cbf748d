"""What peers talk to: replayed, embedded and real servers, in processes of their own."""
