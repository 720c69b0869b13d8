"""Checks that tell whether a plugin keeps the contract."""
