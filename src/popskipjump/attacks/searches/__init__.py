"""Line searches: they locate the decision boundary between an adversarial point and the original."""
