"""The calibrate stage: the operating point (K, beta, tau), chosen on validation.

stage.calibrate(...)         the point for the scorer of the present data
search.calibrate_scores      every point that keeps both limits, and the best of them
certificates                 a finite-sample bound on the unsafe rate
"""
