"""Requests for pictures: checked, judged, and put into the queue."""
