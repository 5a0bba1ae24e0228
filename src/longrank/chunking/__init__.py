"""From long text to pieces a model can read."""
