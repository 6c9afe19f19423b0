"""Code that may see the future: next outputs, measured harm, rewards. Nothing outside may import it."""
