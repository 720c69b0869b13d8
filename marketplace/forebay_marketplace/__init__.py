"""The registry that serves plugins together with their evidence."""
