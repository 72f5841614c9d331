"""The array functions, a module for each chapter of the standard. Importing the package registers them all."""
