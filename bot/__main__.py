"""`python -m bot` is `sdjax-bot`."""

from bot.cli.main import main

if __name__ == "__main__":
    main()
