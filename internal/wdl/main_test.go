package wdl

import (
	"os"
	"testing"

	"github.com/wdlrun/wdlrun/internal/patient"
)

func TestMain(m *testing.M) { os.Exit(patient.InMemory(m).Run()) }
