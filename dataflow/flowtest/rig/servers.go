package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Servers are one server of each kind, for all tests of a run.
type Servers struct {
	// Env names them as the package comment says: NAME=VALUE.
	Env []string

	stop []func()
}

// StartServers starts them in an empty folder, side by side. What ./test/install
// has not fetched is an error, and then nothing is left running.
func StartServers(dir string) (*Servers, error) {
	var broker *Broker
	var weed *seaweed
	var catalog Catalog
	var rest *process
	python, err := installed("python", "bin", "python")
	if err != nil {
		return nil, fmt.Errorf("run ./test/install first: %w", err)
	}
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() {
		sub := filepath.Join(dir, "kafka")
		if errs[0] = os.MkdirAll(sub, 0o700); errs[0] == nil {
			broker, errs[0] = newBroker(sub)
		}
	})
	wg.Go(func() {
		for _, sub := range []string{"s3", "rest"} {
			if errs[1] = os.MkdirAll(filepath.Join(dir, sub), 0o700); errs[1] != nil {
				return
			}
		}
		if weed, errs[1] = startSeaweed(filepath.Join(dir, "s3")); errs[1] == nil {
			catalog, rest, errs[1] = startREST(filepath.Join(dir, "rest"), weed.store)
		}
	})
	wg.Wait()
	s := &Servers{}
	if rest != nil {
		s.stop = append(s.stop, rest.stop)
	}
	if weed != nil {
		s.stop = append(s.stop, weed.process.stop)
	}
	if broker != nil {
		s.stop = append(s.stop, broker.Kill)
	}
	if err := errors.Join(errs[:]...); err != nil {
		s.Stop()
		return nil, err
	}
	st, auth := weed.store, weed.catalog
	s.Env = []string{
		"FRAZIL_TEST_KAFKA=" + broker.Addr,
		fmt.Sprintf("FRAZIL_TEST_S3=%s,%s,%s,%s", st.Endpoint, st.AccessKey, st.SecretKey, st.Warehouse),
		fmt.Sprintf("FRAZIL_TEST_REST=%s,%s", catalog.URI, catalog.Warehouse),
		fmt.Sprintf("FRAZIL_TEST_REST_AUTH=%s,%s,%s", auth.URI, auth.Warehouse, auth.Credential),
		"FRAZIL_TEST_READERS=" + python,
	}
	return s, nil
}

// Stop ends all of them.
func (s *Servers) Stop() {
	var wg sync.WaitGroup
	for _, stop := range s.stop {
		wg.Go(stop)
	}
	wg.Wait()
	s.stop = nil
}
