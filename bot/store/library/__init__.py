"""What servers keep under names: styles and wildcards."""
