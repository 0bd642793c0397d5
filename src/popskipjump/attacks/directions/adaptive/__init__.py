"""QuickSkipJump's gradient estimate: random directions that adapt to earlier answers."""
