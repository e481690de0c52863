package registry

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wdlrun/wdlrun/internal/data/avro"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

const (
	maxAnswer     = 4 << 20         // bytes of an answer, or of a file
	maxReferences = 256             // of a schema
	tryTimeout    = 5 * time.Second // of a request

	noSchema = 40403 // error code of the registry: there is no schema of the id
)

// answer describes a schema, as the registry sends it.
type answer struct {
	Schema     string      `json:"schema"`
	Type       string      `json:"schemaType"` // "": AVRO
	References []reference `json:"references"`
}

// reference is a schema that another one uses.
type reference struct {
	Name    string `json:"name"` // what the other one calls it; in Protobuf, the path that it imports
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// fetch fetches and parses the schema of an id.
func (s *Schemas) fetch(ctx context.Context, id schemaID) (*written, error) {
	if s.from.URL == "" {
		return s.read(id)
	}
	var a answer
	kind := "ids/"
	if id.guid != (schemaID{}).guid {
		kind = "guids/"
	}
	if err := s.get(ctx, "/schemas/"+kind+id.String(), &a); err != nil {
		return nil, err
	}
	format := map[bool]string{false: "AVRO", true: "PROTOBUF"}[s.protobuf]
	if a.Type == "" {
		a.Type = "AVRO"
	}
	if a.Type != format {
		return nil, Flaw(fmt.Sprintf("it is of the type %s, and data.format is %s", a.Type, strings.ToLower(format)))
	}
	g := &gathered{schemas: s, seen: map[reference]bool{}}
	if err := g.add(ctx, a.References); err != nil {
		return nil, err
	}
	if !s.protobuf {
		return s.parseAvro([]byte(a.Schema), g.texts)
	}
	files := make([]*descriptorpb.FileDescriptorProto, 0, len(g.texts)+1)
	for i, text := range append(g.texts, []byte(a.Schema)) {
		f, err := descriptor(text)
		if err != nil {
			return nil, err
		}
		if i < len(g.names) {
			f.Name = proto.String(g.names[i])
		}
		files = append(files, f)
	}
	return s.parseProto(files)
}

// gathered are the schemas to which one refers, each after those that it uses.
type gathered struct {
	schemas *Schemas
	seen    map[reference]bool
	names   []string
	texts   [][]byte
}

func (g *gathered) add(ctx context.Context, all []reference) error {
	for _, r := range all {
		if g.seen[r] {
			continue
		}
		if g.seen[r] = true; len(g.seen) > maxReferences {
			return Flaw(fmt.Sprintf("it has more than %d references", maxReferences))
		}
		var a answer
		if err := g.schemas.get(ctx, "/subjects/"+url.PathEscape(r.Subject)+"/versions/"+strconv.Itoa(r.Version), &a); err != nil {
			return fmt.Errorf("its reference to version %d of %s: %w", r.Version, r.Subject, err)
		}
		if err := g.add(ctx, a.References); err != nil {
			return err
		}
		g.names, g.texts = append(g.names, r.Name), append(g.texts, []byte(a.Schema))
	}
	return nil
}

// get asks the registry once.
func (s *Schemas) get(ctx context.Context, path string, to *answer) error {
	if s.client == nil {
		c, err := kafka.TLSConfig(s.from.CA, s.from.Cert, s.from.Key)
		if err != nil {
			return err
		}
		s.client = &http.Client{Timeout: tryTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, IdleConnTimeout: tryTimeout}}
	}
	if s.protobuf {
		path += "?format=serialized"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.from.URL, "/")+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if s.from.Credentials != "" { // read each time: they may be replaced while a training runs
		user, password, err := kafka.ReadCredentials(s.from.Credentials)
		if err != nil {
			return err
		}
		req.SetBasicAuth(user, password)
	}
	resp, err := s.client.Do(req)
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return fmt.Errorf("%w; give in data.registry.ca the file of the authority that signed the registry's certificate", err)
	case err != nil:
		return away{err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return away{err}
	case len(body) > maxAnswer:
		return Flaw(fmt.Sprintf("the registry's answer has more than %d bytes", maxAnswer))
	case resp.StatusCode != http.StatusOK:
		return s.refusal(resp, body)
	}
	if err := json.Unmarshal(body, to); err != nil || to.Schema == "" {
		return fmt.Errorf("the answer to GET %s has no schema; is data.registry.url the address of a schema registry?", req.URL.Redacted())
	}
	return nil
}

// refusal returns the error of an answer without a schema.
func (s *Schemas) refusal(resp *http.Response, body []byte) error {
	var e struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &e) // other answers have no code
	switch err := fmt.Errorf("GET %s: %s %.200q", resp.Request.URL.Redacted(), resp.Status, e.Message); {
	case e.Code == noSchema:
		return Flaw("the registry does not know it")
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w; check user and password in data.registry.credentials, and that the user may read schemas", err)
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= http.StatusInternalServerError:
		return away{err}
	default:
		return fmt.Errorf("%w; is data.registry.url the address of a schema registry?", err)
	}
}

// descriptor decodes the descriptor of a file as registries write it.
func descriptor(text []byte) (*descriptorpb.FileDescriptorProto, error) {
	f := new(descriptorpb.FileDescriptorProto)
	b, err := base64.StdEncoding.DecodeString(string(text))
	if err == nil {
		err = proto.Unmarshal(b, f)
	}
	if err != nil {
		return nil, Flaw("the registry has no descriptor of it (format=serialized), only its text: write it with protoc --include_imports -o ID.desc to a folder, and name that in data.registry.files instead of url")
	}
	return f, nil
}

// read reads the schema of an id from a file.
func (s *Schemas) read(id schemaID) (*written, error) {
	name := s.from.Files
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, id.String()+map[bool]string{false: ".avsc", true: ".desc"}[s.protobuf])
	}
	b, err := regular.ReadFile(name, maxAnswer)
	switch {
	case errors.Is(err, fs.ErrNotExist) && name != s.from.Files:
		return nil, Flaw("there is no file " + filepath.Base(name))
	case err != nil:
		return nil, err
	case !s.protobuf:
		return s.parseAvro(b, nil)
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(b, set); err != nil || len(set.File) == 0 {
		return nil, Flaw(name + " is not a FileDescriptorSet; write it with protoc --include_imports -o " + filepath.Base(name))
	}
	return s.parseProto(set.File)
}

func (s *Schemas) parseAvro(text []byte, others [][]byte) (*written, error) {
	x, err := avro.ParseSchema(text, others...)
	if err != nil {
		return nil, Flaw(err.Error())
	}
	if s.explode == "" {
		return &written{one: &Type{avro: x}}, nil
	}
	e, err := x.Explode(s.explode)
	if err != nil {
		return nil, Flaw(err.Error())
	}
	return &written{one: &Type{avro: e.Schema(), parts: e}}, nil
}
