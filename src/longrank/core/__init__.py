"""The shared vocabulary: types, contracts, errors and small tools every stage uses. No torch here."""
