package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// Limits of the exchange with a server.
const (
	maxAnswer      = 16 << 20 // bytes
	patience       = time.Minute
	uploadPatience = 5 * time.Minute // of a file
)

// artifactScheme is that of artifacts which the server itself receives.
const artifactScheme = "mlflow-artifacts"

// Server is a tracking server.
type Server struct {
	url    *url.URL
	client *http.Client
	sign   func(*http.Request)
}

// NewServer returns the server at an address such as http://127.0.0.1:5000. Credentials are those of MLflow's own
// clients: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
func NewServer(address string, getenv func(string) string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("mlflow: %q is no address of a server, such as http://127.0.0.1:5000; to start one: mlflow server --backend-store-uri sqlite:///mlflow.db", address)
	}
	if u.User != nil {
		return nil, errors.New("mlflow: the address contains credentials, which others can read: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead")
	}
	s := &Server{url: u, client: &http.Client{Timeout: patience}, sign: func(*http.Request) {}}
	if token := getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		s.sign = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	} else if user := getenv("MLFLOW_TRACKING_USERNAME"); user != "" {
		s.sign = func(r *http.Request) { r.SetBasicAuth(user, getenv("MLFLOW_TRACKING_PASSWORD")) }
	}
	return s, nil
}

func (s *Server) String() string { return s.url.String() }

// refusal is the error that a server returned.
type refusal struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
	server  string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("mlflow: %s: %s: %s", r.server, r.Code, r.Message)
}

// isMissing reports whether the server does not have what was asked for.
func isMissing(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code == "RESOURCE_DOES_NOT_EXIST"
}

func (s *Server) get(ctx context.Context, method, key, value string, into any) error {
	return s.send(ctx, http.MethodGet, "api/2.0/mlflow/"+method, url.Values{key: {value}}.Encode(), nil, into)
}

func (s *Server) post(ctx context.Context, method string, body map[string]any, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("mlflow: %w", err)
	}
	return s.send(ctx, http.MethodPost, "api/2.0/mlflow/"+method, "", bytes.NewReader(b), into)
}

// upload writes a file below the artifacts of a run, whose address is root.
func (s *Server) upload(ctx context.Context, root string, f File) error {
	at, err := url.Parse(root)
	if err != nil || at.Scheme != artifactScheme {
		return fmt.Errorf("mlflow: %s: artifacts of this server are in %s, which only its own clients can write: start it with --serve-artifacts", s, root)
	}
	content, err := f.Open()
	if err != nil {
		return fmt.Errorf("mlflow: %w", err)
	}
	defer content.Close()
	return s.send(ctx, http.MethodPut, path.Join("api/2.0/mlflow-artifacts/artifacts", strings.TrimPrefix(at.Path, "/"), f.Name), "", content, nil)
}

// send makes a request and decodes the answer, if into is not nil.
func (s *Server) send(ctx context.Context, verb, to, query string, body io.Reader, into any) error {
	u := s.url.JoinPath(to)
	u.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, verb, u.String(), body)
	if err != nil {
		return fmt.Errorf("mlflow: %w", err)
	}
	if verb == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	s.sign(request)
	client := *s.client
	if verb == http.MethodPut {
		client.Timeout = uploadPatience
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("mlflow: %s does not answer: %w", s, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("mlflow: %s: %w", s, err)
	}
	if answer.StatusCode != http.StatusOK {
		refused := &refusal{server: s.String()}
		if json.Unmarshal(b, refused) != nil || refused.Code == "" {
			refused.Code, refused.Message = answer.Status, "is it a tracking server of MLflow?"
		}
		return refused
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("mlflow: %s: the answer to %s is not JSON: %w", s, to, err)
	}
	return nil
}

// File is an artifact of a run.
type File struct {
	Name string
	Open func() (io.ReadCloser, error)
}
