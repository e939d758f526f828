"""What is predicted: rules, their distributions, models, and what they say in words."""
