"""Finds secrets and dates in text with libraries. Adapters behind the ports Redactor and DateReader."""
