"""An HTTP proxy in front of one OpenAI- or Anthropic-compatible endpoint, which prunes what passes through it.

    drsr serve --upstream https://api.example.com --policy policies/2026.11.16

A client sends its requests here instead, with its own key. Whatever the proxy cannot or may not prune goes through as
it came. It needs `drsr[proxy]`; `app.py` shows what it is made of, `forwarding.py` the way of one request.
"""
