"""A Discord on 127.0.0.1: gateway, REST, attachments and a page for people, to run the real bot against."""
