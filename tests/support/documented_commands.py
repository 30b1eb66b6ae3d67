WALKED = ("README.md", "docs/operators.md")
