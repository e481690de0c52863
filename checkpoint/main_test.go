package checkpoint

import (
	"os"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { os.Exit(patient.InMemory(m).Run()) }
