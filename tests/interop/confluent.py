#!/usr/bin/env python3
"""Writes records as Confluent's serializers do, with a registry that stands in for the real one.

    pip install 'confluent-kafka[avro,protobuf,json,schemaregistry]==2.16.1'
    python confluent.py file FILE           writes records, what is in them, and the schemas, for the tests of package registry
    python confluent.py topics BROKER NAME  writes 1,000 records each to the topics NAME.avro, NAME.protobuf and NAME.json, prints
                                            the address of the registry, and serves it until its input ends
"""

import base64
import datetime
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlparse

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2


class Registry(BaseHTTPRequestHandler):
    schemas, versions = [], {}

    def do_GET(self):
        url = urlparse(self.path)
        part = [unquote(p) for p in url.path.split("/")[1:]]
        try:
            schema = self.schemas[int(part[2]) - 1] if part[0] == "schemas" else self.schemas[self.versions[part[1]][int(part[3]) - 1] - 1]
        except (IndexError, KeyError):
            return self.answer(404, {"error_code": 40403, "message": "Schema not found"})
        if schema.get("schemaType") == "PROTOBUF" and parse_qs(url.query).get("format") != ["serialized"]:
            schema = dict(schema, schema="syntax = …")  # the real one returns the text
        self.answer(200, schema)

    def do_POST(self):
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = {k: v for k, v in schema.items() if k in ("schema", "schemaType", "references") and v}
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        part = [unquote(p) for p in urlparse(self.path).path.split("/")[1:]]
        all = self.versions.setdefault(part[1], [])
        if number not in all and part[2:] == ["versions"]:
            all.append(number)
        self.answer(200, dict(schema, id=number, version=all.index(number) + 1, subject=part[1]))

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def avro_schema(version):
    fields = [
        {"name": "click", "type": "int"},
        {"name": "site", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "user", "type": {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}, {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["guest", "member"]}}]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": "double"},
    ]
    if version > 1:  # a later version of the producer: another order, and a new field
        fields = fields[::-1] + [{"name": "extra", "type": "string", "default": ""}]
    return json.dumps({"type": "record", "name": "Click", "namespace": "ads", "fields": fields})


def protobuf_types():
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(known.DESCRIPTOR.serialized_pb))
    F = descriptor_pb2.FieldDescriptorProto

    def field(to, name, number, kind, label=F.LABEL_OPTIONAL, of=None):
        to.field.add(name=name, number=number, type=kind, label=label, type_name=of)

    shared = descriptor_pb2.FileDescriptorProto(name="ads/user.proto", package="ads", syntax="proto3")
    user = shared.message_type.add(name="User")
    field(user, "id", 1, F.TYPE_UINT64)
    kind = user.enum_type.add(name="Kind")
    kind.value.add(name="guest", number=0)
    kind.value.add(name="member", number=1)
    field(user, "kind", 2, F.TYPE_ENUM, of=".ads.User.Kind")
    pool.Add(shared)
    main = descriptor_pb2.FileDescriptorProto(name="ads/click.proto", package="ads", syntax="proto3", dependency=["ads/user.proto", "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    main.message_type.add(name="Other")
    outer = main.message_type.add(name="Events")
    click = outer.nested_type.add(name="Click")
    field(click, "click", 1, F.TYPE_INT32)
    field(click, "site", 2, F.TYPE_MESSAGE, of=".google.protobuf.StringValue")
    field(click, "tags", 3, F.TYPE_STRING, F.LABEL_REPEATED)
    field(click, "user", 4, F.TYPE_MESSAGE, of=".ads.User")
    field(click, "at", 5, F.TYPE_MESSAGE, of=".google.protobuf.Timestamp")
    field(click, "price", 6, F.TYPE_DOUBLE)
    pool.Add(main)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ads.Events.Click"))


def click(i):
    return {
        "click": i % 2,
        "site": None if i % 5 == 0 else f"s{i % 7}",
        "tags": [f"t{i % 3}", "ä"][: i % 3],
        "user": {"id": 1 << (i % 60), "kind": ["guest", "member"][i % 2]},
        "at": datetime.datetime.fromtimestamp(1700000000 + i, datetime.timezone.utc),
        "price": i / 4,
    }


def message(of, x):
    m = of(click=x["click"], tags=x["tags"], price=x["price"])
    if x["site"] is not None:
        m.site.value = x["site"]
    m.user.id, m.user.kind = x["user"]["id"], ["guest", "member"].index(x["user"]["kind"])
    m.at.FromDatetime(x["at"])
    return m


def plain(x, *_):
    return dict(x, at=x["at"].isoformat())


def serializers(url):
    client = SchemaRegistryClient({"url": url})
    avro = [AvroSerializer(client, avro_schema(v), lambda x, _, v=v: dict(x, extra="new") if v > 1 else x) for v in (1, 2)]
    click = protobuf_types()
    protobuf = ProtobufSerializer(click, client, {"use.deprecated.format": False})
    schema = {"title": "Click", "type": "object", "properties": {"click": {"type": "integer"}}}
    text = JSONSerializer(json.dumps(schema), client, plain)
    return {
        "avro": lambda i, c: avro[i % 2](globals()["click"](i), c),
        "protobuf": lambda i, c: protobuf(message(click, globals()["click"](i)), c),
        "json": lambda i, c: text(globals()["click"](i), c),
    }


def main(command, where, name=""):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    records, producer = [], Producer({"bootstrap.servers": where}) if command == "topics" else None
    for format, serialize in serializers(url).items():
        topic = f"{name}.{format}"
        for i in range(1000 if producer else 12):
            value = serialize(i, SerializationContext(topic, MessageField.VALUE))
            if producer:
                producer.produce(topic, value, key=str(i), headers={"n": str(i)})
            else:
                records.append({"format": format, "value": base64.b64encode(value).decode(), "want": plain(click(i))})
    if producer:
        assert producer.flush(60) == 0
        print(url, flush=True)
        sys.stdin.read()
    else:
        with open(where, "w") as f:
            json.dump({"schemas": Registry.schemas, "versions": Registry.versions, "records": records}, f, indent=1, ensure_ascii=False)
            f.write("\n")


if len(sys.argv) < 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
