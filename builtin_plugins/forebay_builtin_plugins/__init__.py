"""The plugins that come with Forebay, written against the contract alone."""
