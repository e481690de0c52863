package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// readOAuth reads a token, or the client of an authorization server that issues one.
func readOAuth(path string) (map[string]string, error) {
	c, err := readPairs(path, parseOAuth)
	if err != nil {
		err = fmt.Errorf("%w; the file has the line token=TOKEN, or the lines token_url=URL, client_id=ID, client_secret=SECRET and, if needed, scope=SCOPE", err)
	}
	return c, err
}

func parseOAuth(b []byte) (map[string]string, error) {
	c, err := parsePairs(b, "token", "token_url", "client_id", "client_secret", "scope")
	if err != nil {
		return nil, err
	}
	client := c["token_url"] != "" && c["client_id"] != "" && c["client_secret"] != ""
	if u, err := url.Parse(c["token_url"]); client && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return nil, errors.New("token_url is no URL")
	}
	if client == (c["token"] != "") {
		return nil, errors.New("a token, or a client with its URL and secret, is missing, or both are given")
	}
	return c, nil
}

// grant asks an authorization server for a token (RFC 6749, section 4.4). Errors do not have its answer.
func grant(ctx context.Context, c map[string]string) (string, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if c["scope"] != "" {
		form.Set("scope", c["scope"])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c["token_url"], strings.NewReader(form.Encode()))
	if err != nil {
		return "", final{err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(c["client_id"]), url.QueryEscape(c["client_secret"]))
	resp, err := (&http.Client{Timeout: tryTimeout}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSecurity))
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if json.Unmarshal(b, &answer) == nil && resp.StatusCode == http.StatusOK && answer.Token != "" {
		return answer.Token, nil
	}
	err = fmt.Errorf("%s issues no token: %s; check client_id and client_secret", req.URL.Redacted(), resp.Status)
	if resp.StatusCode < http.StatusInternalServerError {
		err = final{err}
	}
	return "", err
}
