"""What plugins and actions are written against: session, extension points, statement, registry, configuration."""
