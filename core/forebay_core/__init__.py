"""The engine behind the contract: plugin manager, pools, ledger, scheduling and command line."""
