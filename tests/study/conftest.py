"""What the tests of the study share: `profiles_for_tests` and a stub worker beside this file, on the path by it."""
