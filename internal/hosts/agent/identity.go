package agent

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// KeyFile is the file of the private key.
const KeyFile = "host.key"

// maxKey is the maximum size of that file.
const maxKey = 4 << 10

// Folder returns the folder of the key and the roster. getenv reads the environment.
func Folder(getenv func(string) string) (string, error) {
	config := getenv("XDG_CONFIG_HOME")
	if config == "" && getenv("HOME") == "" {
		return "", errors.New("agent: neither HOME nor XDG_CONFIG_HOME is set: set HOME to a folder for the key of this machine")
	}
	return filepath.Join(cmp.Or(config, filepath.Join(getenv("HOME"), ".config")), "wdlrun"), nil
}

// errNoKey is the error of a machine without a key.
var errNoKey = errors.New("agent: this machine has no key yet; try: wdlrun agent id")

// ID returns the peer ID of this machine.
func ID(folder string) (peer.ID, error) {
	key, err := loadKey(folder)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// Key returns the private key of this machine. It makes one if there is none.
func Key(folder string) (crypto.PrivKey, error) {
	key, err := loadKey(folder)
	if !errors.Is(err, errNoKey) {
		return key, err
	}
	key, _, err = crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, KeyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process has made it meanwhile
		return loadKey(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(b) + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("agent: %w", err)
	}
	return key, nil
}

func loadKey(folder string) (crypto.PrivKey, error) {
	path := filepath.Join(folder, KeyFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("agent: %s can be read by others (mode %#o); try: chmod 600 %[1]s", path, info.Mode().Perm())
	}
	text, err := regular.ReadFile(path, maxKey)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("agent: %s holds no key: %w; remove it to get a new identity", path, err)
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("agent: %s holds no key: %w; remove it to get a new identity", path, err)
	}
	return key, nil
}
