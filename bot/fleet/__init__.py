"""The fleet: workers as actors on a Ray cluster, and how many of them the waiting work needs.

Sizes and plans are pure functions; `ray_cluster` alone calls Ray.
"""
