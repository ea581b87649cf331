"""What is stored of persons: preferences, favourites, exports, erasure."""
