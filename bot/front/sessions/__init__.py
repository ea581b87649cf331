"""Group sessions in Discord: the commands, who may lead them, and what they show."""
