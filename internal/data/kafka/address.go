// Package kafka reads ranges of offsets of a topic's partitions.
//
// # Addresses
//
//	kafka://HOST:PORT[,HOST:PORT…]/TOPIC[?group=G&start=latest&reset=earliest&timeout=20s]
//	kafka://HOST:PORT[,HOST:PORT…]/TOPIC[?id=ID]#PARTITION:LO-HI
//
// The second form names a range: the records of offsets LO to HI−1. It is finite and does
// not change. Like a file, it can be cut into parts, read in any order, and read again after
// a failure. ID is the topic's id, as the tools of Kafka print it. If the topic is deleted and
// another is created under its name, a range with the id of the former is never read from the latter.
//
// # Authentication
//
//	tls=true                 TLS, by the system's authorities
//	ca=FILE                  TLS, by the authorities of a PEM file instead
//	cert=FILE, key=FILE      TLS with a client certificate: PEM files of it and of its key
//	sasl=MECHANISM           plain, scram-sha-256, scram-sha-512 or oauthbearer, with
//	credentials=FILE         the lines username=NAME and password=SECRET; for oauthbearer token=TOKEN,
//	                         or token_url=URL, client_id=ID, client_secret=SECRET and scope=SCOPE
//
// An address is written into run directories and shown in errors. It therefore names the
// file with the secret and never contains one. The file is read again at each handshake, so
// it can be replaced while a job runs. All hosts of a job need it at the same path. Without
// TLS, plain and oauthbearer send the secret in the clear, so tls=false must be given explicitly.
//
// # Reading
//
// Offsets are requested directly, without a consumer group and its rebalancing. The order of
// an epoch determines which rank reads a range, and the checkpoint where reading continues. A
// group only records the position of a training at the broker, by Commit. Records of aborted
// transactions are skipped. Offsets end at the last stable one.
//
// # Cost and limits
//
// A fetch requests 128 KiB, and twice as much if the next one follows, up to 4 MiB. A Log
// keeps the last 64 MiB that it fetched, for ranges that several lanes read in turns. A batch of
// records that is larger than a fetch is read whole, up to 80 MiB. Beyond that, it is an error at once.
//
// # Errors and concurrency
//
// A request to a broker that does not answer is repeated for 20 seconds, or the timeout of the
// address, or without limit after Wait. The error then names topic, brokers and cause. It is not repeated if the broker
// rejects the credentials or has another certificate. Several goroutines may use a Log.
package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/stream"
)

// Scheme begins every address.
const Scheme = "kafka://"

// Address is a topic, or a range of one of its partitions.
type Address struct {
	Brokers []string
	Topic   string
	Group   string        // consumer group that stores the position of a training; "" for none
	Latest  bool          // begin after the newest record, not with the oldest
	Reset   stream.Reset  // where to begin if the log does not have the offset of the group; "": stream.Fail
	Timeout time.Duration // for a broker that does not answer; 0: 20 s

	TLS         bool
	CA          string // PEM file of trusted authorities; "": the system's
	Cert, Key   string // PEM files of a client certificate and its key; "": none
	SASL        string // mechanism: plain, scram-sha-256, scram-sha-512, oauthbearer; "" for none
	Credentials string // file of user and password, or of a token

	ID    string // of the topic of Range; "": any
	Range *Range // nil: the whole topic
}

// Range is the offsets [Lo, Hi) of a partition.
type Range struct {
	Partition int32
	Lo, Hi    int64
}

const (
	maxName    = 249              // bytes of a topic's name, Kafka's limit
	patience   = 20 * time.Second // below the limit after which a rank counts as stuck
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Hour
)

// ParseAddress parses an address.
func ParseAddress(s string) (a Address, err error) {
	shown := s // for errors
	bad := func(format string, args ...any) (Address, error) {
		return Address{}, fmt.Errorf("kafka: address %s: %s; it is kafka://HOST:PORT/TOPIC", shown, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		shown, _, _ = strings.Cut(s, "?")
		return bad("it does not begin with %s", Scheme)
	}
	if strings.Contains(rest, "@") {
		shown = Scheme + "…" + rest[strings.LastIndexByte(rest, '@'):]
		return bad("user and password belong in a file: sasl=scram-sha-512&credentials=FILE; write an @ after the ? as %%40")
	}
	rest, fragment, ranged := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	shown = Scheme + rest // the query may contain a secret by mistake
	hosts, topic, ok := strings.Cut(rest, "/")
	if !ok || topic == "" {
		return bad("it names no topic")
	}
	if len(topic) > maxName || strings.Trim(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return bad("%q is not a name of a topic", topic)
	}
	a.Topic = topic
	for h := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(h)
		if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || n == 0 || host == "" {
			return bad("broker %q is not HOST:PORT", h)
		}
		a.Brokers = append(a.Brokers, h)
	}
	if err := a.parseQuery(query); err != nil {
		return bad("%v", err)
	}
	if a.ID != "" && !ranged {
		return bad("id= is for a range of offsets, such as #3:100-200")
	}
	if ranged {
		if a.Range, err = parseRange(fragment); err != nil {
			return bad("%v", err)
		}
	}
	return a, nil
}

// parseQuery parses the part after the ?. Its errors do not show the values of unknown
// keys.
func (a *Address) parseQuery(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("after the ? there is an invalid URL escape, or a semicolon")
	}
	for k, v := range q {
		switch x := v[len(v)-1]; k {
		case "group":
			a.Group = x
		case "start":
			a.Latest, err = x == "latest", oneOf(k, x, "latest", "earliest")
		case "reset":
			a.Reset, err = stream.Reset(x), oneOf(k, x, string(stream.Earliest), string(stream.Latest), string(stream.Fail))
		case "id":
			a.ID, err = x, checkID(x)
		case "timeout":
			if a.Timeout, err = time.ParseDuration(x); err != nil || a.Timeout < minTimeout || a.Timeout > maxTimeout {
				err = fmt.Errorf("timeout=%s is not a time from %v to %v, such as 20s", x, minTimeout, maxTimeout)
			}
		case "tls":
			a.TLS, err = x == "true", oneOf(k, x, "true", "false")
		case "ca":
			a.CA = x
		case "cert":
			a.Cert = x
		case "key":
			a.Key = x
		case "sasl":
			a.SASL, err = x, oneOf(k, x, saslPlain, saslSHA256, saslSHA512, saslOAuth)
		case "credentials":
			a.Credentials = x
		default:
			err = fmt.Errorf("%q is unknown; there are group, start, reset, timeout, tls, ca, cert, key, sasl and credentials", k)
		}
		if err != nil {
			return err
		}
	}
	given := q.Has("tls")
	switch {
	case a.Reset != "" && a.Group == "":
		return fmt.Errorf("reset=%s is about the offset that a group has committed, and no group=G is given", a.Reset)
	case (a.CA != "" || a.Cert != "") && given && !a.TLS:
		return errors.New("ca=FILE and cert=FILE are for TLS, and tls=false is without; leave one of them out")
	case (a.Cert == "") != (a.Key == ""):
		return errors.New("a client certificate needs both cert=FILE and key=FILE")
	case a.SASL != "" && a.Credentials == "":
		return fmt.Errorf("sasl=%s needs credentials=FILE, a file with the lines username=NAME and password=SECRET, or token=TOKEN for oauthbearer", a.SASL)
	case a.SASL == "" && a.Credentials != "":
		return errors.New("credentials=FILE needs sasl=plain, sasl=scram-sha-256, sasl=scram-sha-512 or sasl=oauthbearer")
	case a.isPlain() && !a.TLS && a.CA == "" && a.Cert == "" && !given:
		return fmt.Errorf("sasl=%s without TLS shows the password to anyone who listens; add tls=true, or tls=false if that is meant", a.SASL)
	}
	a.TLS = a.TLS || a.CA != "" || a.Cert != ""
	return nil
}

// isPlain reports whether the mechanism sends a secret that only TLS conceals.
func (a Address) isPlain() bool { return a.SASL == saslPlain || a.SASL == saslOAuth }

// idOf returns the id of a topic as the tools of Kafka print it; "" if the broker has none.
func idOf(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func checkID(s string) error {
	if b, err := base64.RawURLEncoding.Strict().DecodeString(s); err != nil || len(b) != 16 {
		return fmt.Errorf("id=%s is not the id of a topic", s)
	}
	return nil
}

func oneOf(k, x string, all ...string) error {
	if slices.Contains(all, x) {
		return nil
	}
	return fmt.Errorf("%s=%s has no meaning; it is %s", k, x, strings.Join(all, " or "))
}

// parseRange parses PARTITION:LO-HI.
func parseRange(s string) (*Range, error) {
	number, offsets, ok := strings.Cut(s, ":")
	lo, hi, ok2 := strings.Cut(offsets, "-")
	p, err := strconv.ParseInt(number, 10, 32)
	l, err2 := strconv.ParseInt(lo, 10, 64)
	h, err3 := strconv.ParseInt(hi, 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil || err3 != nil || p < 0 || l < 0 || h <= l {
		return nil, fmt.Errorf("%q is not a range of offsets, such as #3:100-200", s)
	}
	return &Range{int32(p), l, h}, nil
}

// String returns the address in the form of ParseAddress. For a range it omits the
// settings of whole topics.
func (a Address) String() string {
	s := Scheme + strings.Join(a.Brokers, ",") + "/" + a.Topic
	q := url.Values{}
	if a.TLS || a.isPlain() {
		q.Set("tls", strconv.FormatBool(a.TLS))
	}
	for k, v := range map[string]string{"id": a.ID, "ca": a.CA, "cert": a.Cert, "key": a.Key, "sasl": a.SASL, "credentials": a.Credentials} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if a.Timeout > 0 {
		q.Set("timeout", a.Timeout.String())
	}
	if a.Range == nil && a.Group != "" {
		q.Set("group", a.Group)
	}
	if a.Range == nil && a.Latest {
		q.Set("start", "latest")
	}
	if a.Range == nil && a.Reset != "" {
		q.Set("reset", string(a.Reset))
	}
	if len(q) > 0 {
		s += "?" + q.Encode()
	}
	if r := a.Range; r != nil {
		s += fmt.Sprintf("#%d:%d-%d", r.Partition, r.Lo, r.Hi)
	}
	return s
}

// Of returns the address of a range of the topic with an id, which may be "".
func (a Address) Of(r Range, id string) Address {
	a.Range, a.ID = &r, id
	return a
}
