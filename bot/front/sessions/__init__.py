"""Group sessions in Discord: who may lead them, and what they show."""
