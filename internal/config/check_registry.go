package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
)

// registry checks the settings of schemas, and others that only topics have.
func (k checker) registry() {
	d, r := k.c.Data, k.c.Data.Registry
	messages := d.Format == "avro" || d.Format == "protobuf"
	isTopic := func(name string) bool { return strings.HasPrefix(name, kafka.Scheme) }
	topic := slices.ContainsFunc(slices.Concat(d.Train, d.Valid, d.Test), isTopic)
	for _, x := range []struct {
		name   string
		given  bool
		effect bool
		needs  string
	}{
		{"url", r.URL != "", messages && topic, "a topic and format: avro or protobuf"},
		{"files", r.Files != "", messages && topic, "a topic and format: avro or protobuf"},
		{"credentials", r.Credentials != "", r.URL != "", "url"},
		{"ca", r.CA != "", r.URL != "", "url"},
		{"cert", r.Cert != "", r.Key != "" && r.URL != "", "key and url"},
		{"key", r.Key != "", r.Cert != "", "cert"},
		{"message", r.Message != "", d.Format == "protobuf" && r.On(), "format: protobuf, and url or files"},
		{"bare", r.Bare, r.Files != "", "files"},
	} {
		if x.given && !x.effect && !k.knowsFault("data.format") {
			k.bad("data.registry."+x.name, "has no effect without %s", x.needs)
		}
	}
	if d.Explode != "" && (d.Format != "jsonl" && !messages || !topic) && !k.knowsFault("data.format") {
		k.bad("data.explode", "has no effect without a topic and format: jsonl, avro or protobuf")
	}
	if r.URL != "" && r.Files != "" {
		k.later("data.registry.url", "data.registry.files", "schemas are fetched, or read from files")
	}
	if u, err := url.Parse(r.URL); r.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "") {
		k.bad("data.registry.url", "must be http://HOST:PORT or https://HOST:PORT; user and password belong in the file of credentials")
	}
	if slices.ContainsFunc(d.Train, isTopic) && messages && !r.On() && !k.knowsFault("data.format") {
		k.bad("data.format", "is %s, and records of a topic in it need their schemas: set data.registry.url, the address of a schema registry, or data.registry.files", d.Format)
	}
}
