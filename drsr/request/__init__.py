"""Requests: typed values from each wire form, with their protocol, history and tokens.

    read_request(body)      a Request from OpenAI chat or Anthropic Messages, and back, unchanged
    violations(request)     what makes a tool conversation invalid
    read_history(request)   protected prefix, Steps and Blocks; `delete` removes Blocks together
    render(request)         the canonical tokens, with the span of every part

`contracts` holds what the rest of the code needs from a tokenizer and from a language model.
"""

from drsr.request.request import Request, read_request

__all__ = ["Request", "read_request"]
