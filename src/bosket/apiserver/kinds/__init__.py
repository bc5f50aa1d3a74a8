"""What is peculiar to each built-in kind: defaults, rules, selectable fields. One module for each family of kinds."""
