"""What `import fedner` offers beyond the rooms' own names; use it by way of `fedner`."""
