//! Short examples that explain an algorithm better than a property does.
