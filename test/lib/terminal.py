"""A client of the AIO dialect's terminal (GET /aio/ID/v1/shell/ws), for tests: sends its messages, and waits for texts."""
import json
from door import Door


class Terminal:
    def __init__(self, socket, path):
        self.door, self.text, self.messages = Door(socket), '', []
        self.open = self.door.upgrade(path, [])

    def send(self, **message):
        self.door.frame(1, json.dumps(message).encode())

    def type(self, data):
        self.send(type='input', data=data)

    def take(self):
        """The next message; None when there is none to come."""
        try:
            while (text := self.door.message()) is None:
                pass
        except (StopIteration, EOFError):
            return None
        message = json.loads(text)
        self.messages.append(message)
        if message['type'] in ('output', 'restore_output'):
            self.text += message['data']
        return message

    def expect(self, text):
        """What was shown, up to that."""
        while text not in self.text:
            if not self.take():
                raise EOFError(f'{text!r} did not come, but {self.text!r}')
        end = self.text.index(text) + len(text)
        seen, self.text = self.text[:end], self.text[end:]
        return seen

    def until(self, kind):
        while (message := self.take()) and message['type'] != kind:
            pass
        return message

    def drop(self):
        self.door.socket.close()
