package schema

// Registry describes where the schemas of a topic's values are, and how the values name them. The
// yaml tags are the keys of data.registry.
type Registry struct {
	URL         string `yaml:"url"`         // of a schema registry
	Credentials string `yaml:"credentials"` // file of user and password
	CA          string `yaml:"ca"`          // PEM file of trusted authorities; empty: the system's
	Cert        string `yaml:"cert"`        // PEM file of a client certificate
	Key         string `yaml:"key"`         // PEM file of its key
	Files       string `yaml:"files"`       // instead of URL: a folder of schemas by id, or one schema
	Message     string `yaml:"message"`     // of Protobuf: name of the message; empty: the value says which
	Bare        bool   `yaml:"bare"`        // values have no id; the schema is Files
}

// On reports whether schemas are configured.
func (r Registry) On() bool { return r.URL != "" || r.Files != "" }
