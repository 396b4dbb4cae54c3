"""What libraries know about text: secrets and dates. Adapters behind the ports Redactor and DateReader."""
