package mqtt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// sessionsFile stands beside the segments of the stream's log: what this source has
// subscribed to under which client id, so that after a restart a session that the
// broker has lost is noticed, and what the file no longer names is unsubscribed.
const sessionsFile = "mqtt-sessions.json"

// sessions are safe for concurrent use.
type sessions struct {
	path string
	mu   sync.Mutex
	file sessionsJSON
}

type sessionsJSON struct {
	Version int `json:"version"`
	// Clients by their ids.
	Clients map[string]subscription `json:"clients"`
}

// subscription is what the broker holds for a client id, as far as we know.
type subscription struct {
	Broker  string   `json:"broker"`
	Filters []string `json:"filters"`
	QoS     int      `json:"qos"`
}

func openSessions(dir string) (*sessions, error) {
	s := &sessions{path: filepath.Join(dir, sessionsFile), file: sessionsJSON{Version: 1, Clients: map[string]subscription{}}}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s.file)
	}
	if err != nil || s.file.Version != 1 {
		return nil, fmt.Errorf("read %s: it is damaged or of another version (%w). It only says what was subscribed to: remove it to go on", s.path, err)
	}
	if s.file.Clients == nil {
		s.file.Clients = map[string]subscription{}
	}
	return s, nil
}

// get returns the session of a client id at a broker.
func (s *sessions) get(broker, client string) (subscription, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.file.Clients[client]
	return x, ok && x.Broker == broker
}

// put makes a session known and durable.
func (s *sessions) put(client string, x subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file.Clients[client] = x
	b, err := json.MarshalIndent(s.file, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), sessionsFile+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
