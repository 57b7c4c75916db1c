"""Is a result right? Accuracy, references, and inputs to compare on."""
