"""What both sides of Redis agree on: the request at the door, the names of the keys, the message, the errors.

Client and worker both stand on this package; it imports neither, so a web backend can have the client
without Celery and beside packages of its own that are called `config`, `worker` or `tasks`.
"""
