"""Messages as the client sees them, whether they came alone or in a bundle."""

from __future__ import annotations

from nats.aio.msg import Msg


class Message:
    __slots__ = ("data", "headers", "reply", "no_responders")

    def __init__(self, headers: dict[str, list[str]], data: bytes, reply: str = "") -> None:
        self.headers = headers
        self.data = data
        self.reply = reply
        self.no_responders = False  # from the server: nobody has received the request

    @classmethod
    def of(cls, m: Msg) -> Message:
        """A message of nats-py, which knows one value of each header."""
        message = cls({name: [value] for name, value in (m.headers or {}).items()}, bytes(m.data), m.reply)
        message.no_responders = not m.data and message.get("Status") == "503"
        return message

    def get(self, name: str) -> str:
        """The first value of a header, "" if there is none."""
        values = self.headers.get(name)
        return values[0] if values else ""

    @property
    def ends_batch(self) -> bool:
        return self.get("Status") == "204"

    @property
    def is_item(self) -> bool:
        return "PQ-Id" in self.headers
