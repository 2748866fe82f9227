//! The screen of `bowline top`: a summary, tabs for the views, a table that can be sorted and filtered, keys as in
//! htop.
//!
//! A thread asks the server; the main thread draws when a sample or a key arrives. [`Screen`] is the state, which
//! knows no terminal, so that tests press keys and look at what is drawn.

use super::view::View;
use super::{Watching, text};
use crate::host_names;
use admin::rates::{Rates, Row, Watched};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row as TableRow, Table, TableState};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// How long the main thread waits for a key before it looks for a sample.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// The column that rows are sorted by at first: calls.
const CALLS: usize = 1;
/// The last column, which takes the width that is left.
const NOTE: usize = 7;
/// Rows that a page key moves by.
const PAGE: usize = 10;

const KEYS: [(&str, &str); 13] = [
    ("Tab, 1-6", "the next view, one by its number; Shift-Tab: the one before"),
    ("Up, Down", "select a row; also PgUp, PgDn, Home, End"),
    ("F6 > <", "sort by the next column, by the one before"),
    ("I", "invert the order"),
    ("F4 \\", "show only rows with a text; Enter ends it, Esc shows all"),
    ("N", "names of hosts beside their addresses"),
    ("Z, space", "stop, and go on"),
    ("F1 h ?", "this help"),
    ("F10 q", "end; also Ctrl-C"),
    ("", ""),
    ("IN, OUT", "bytes to and from the server; exports: data written, read"),
    ("P50, P99", "half, 99 of 100 of the calls since the last update were faster"),
    ("-", "nothing happened"),
];

/// Shows the rates until a key ends it.
///
/// # Errors
/// The terminal cannot be used, or the server ended.
pub fn run(screen: Screen, interval: Duration, mut server: Watching) -> anyhow::Result<ExitCode> {
    // one sample waits at most: a stopped screen does not pile them up
    let (to, samples) = sync_channel(1);
    std::thread::Builder::new()
        .name("samples".into())
        .spawn(move || take_samples(&mut server, interval, &to))?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, screen, &samples);
    ratatui::restore();
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the server every `interval` until nobody takes the answers or it does not answer.
fn take_samples(
    server: &mut Watching,
    interval: Duration,
    to: &SyncSender<anyhow::Result<Watched>>,
) {
    loop {
        std::thread::sleep(interval);
        let found = server.next();
        let failed = found.is_err();
        if to.send(found).is_err() || failed {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    samples: &Receiver<anyhow::Result<Watched>>,
) -> anyhow::Result<()> {
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|frame| screen.draw(frame))?;
        }
        changed = event::poll(KEY_WAIT)?;
        if changed
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && screen.press(key)
        {
            return Ok(());
        }
        match samples.try_recv() {
            Ok(found) => {
                screen.take(found?);
                changed = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => anyhow::bail!("the server is not asked any more"),
        }
    }
}

/// What is shown.
pub struct Screen {
    rates: Rates,
    view: View,
    sort: usize,
    ascending: bool,
    filter: String,
    editing: bool,
    paused: bool,
    help: bool,
    /// Names of hosts beside their addresses.
    names: bool,
    table: TableState,
}

impl Screen {
    /// A screen that begins with a view, with or without names of hosts.
    pub fn new(first: Watched, view: View, names: bool) -> Self {
        Self {
            rates: first.rates,
            view,
            sort: CALLS,
            ascending: false,
            filter: String::new(),
            editing: false,
            paused: false,
            help: false,
            names,
            table: TableState::default().with_selected(Some(0)),
        }
    }

    fn take(&mut self, watched: Watched) {
        if !self.paused {
            self.rates = watched.rates;
        }
    }

    /// Handles a key; true if it ends the program.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.editing {
            self.edit(key.code);
            return false;
        }
        if self.help {
            self.help = false;
            return false;
        }
        match key.code {
            KeyCode::F(10) | KeyCode::Char('q') => return true,
            KeyCode::F(1) | KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='6') => {
                let index = digit as usize - '1' as usize;
                self.view = View::ALL.get(index).copied().unwrap_or(self.view);
                self.table.select_first();
            }
            KeyCode::F(6) | KeyCode::Char('>') => self.sort_by(1),
            KeyCode::Char('<') => self.sort_by(self.view.columns().len() - 1),
            KeyCode::Char('I' | 'i') => self.ascending = !self.ascending,
            KeyCode::F(4) | KeyCode::Char('\\') => self.editing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('N' | 'n') => {
                self.names = !self.names;
                host_names::start();
            }
            KeyCode::Char('Z' | 'z' | ' ') => self.paused = !self.paused,
            KeyCode::Down => self.table.select_next(),
            KeyCode::Up => self.table.select_previous(),
            KeyCode::PageDown => self.select_by(|row| row.saturating_add(PAGE)),
            KeyCode::PageUp => self.select_by(|row| row.saturating_sub(PAGE)),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            _ => {}
        }
        false
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.editing = false;
            }
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn turn(&mut self, by: usize) {
        let now = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        let next = View::ALL.iter().cycle().nth(now + by);
        self.view = next.copied().unwrap_or(self.view);
        self.table.select_first();
    }

    /// The column that rows are sorted by: calls where the chosen one is not shown.
    fn sorted_by(&self) -> usize {
        if self.view.columns().contains(&self.sort) { self.sort } else { CALLS }
    }

    /// Sorts by the column that comes so many after the present one.
    fn sort_by(&mut self, after: usize) {
        let now = self.sorted_by();
        let from = self.view.columns().iter().position(|column| *column == now).unwrap_or(0);
        let next = self.view.columns().iter().cycle().nth(from + after);
        self.sort = next.copied().unwrap_or(CALLS);
    }

    fn select_by(&mut self, moved: impl Fn(usize) -> usize) {
        self.table.select(Some(moved(self.table.selected().unwrap_or(0))));
    }

    /// The rows of the view that the filter lets through, in order.
    fn rows(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let fits = |row: &&Row| {
            let text = format!("{} {}", row.name, row.note).to_lowercase();
            text.contains(&filter)
        };
        let mut rows: Vec<&Row> = self.view.rows(&self.rates).iter().filter(fits).collect();
        if self.view == View::Calls {
            return rows;
        }
        rows.sort_by(|a, b| {
            let order = match self.sorted_by() {
                0 => b.name.cmp(&a.name),
                2 => a.errors_per_s.unwrap_or(-1.0).total_cmp(&b.errors_per_s.unwrap_or(-1.0)),
                3 => a.in_bytes_per_s.total_cmp(&b.in_bytes_per_s),
                4 => a.out_bytes_per_s.total_cmp(&b.out_bytes_per_s),
                5 => a.p50_ns.cmp(&b.p50_ns),
                6 => a.p99_ns.cmp(&b.p99_ns),
                NOTE => b.note.cmp(&a.note),
                _ => a.calls_per_s.total_cmp(&b.calls_per_s),
            };
            let order = if self.ascending { order } else { order.reverse() };
            order.then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let problems = self.rates.server.problems.len().min(2);
        let problem_lines = u16::try_from(problems).unwrap_or(0);
        let [head, warnings, tabs, table, keys] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(problem_lines),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [server, total, waits] = text::summary(&self.rates);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let width = frame.area().width.into();
        let [server, total, waits] = [server, total, waits].map(|line| text::fitting(&line, width));
        frame.render_widget(
            Paragraph::new(vec![Line::raw(server), Line::styled(total, bold), Line::raw(waits)]),
            head,
        );
        frame.render_widget(Paragraph::new(self.problem_lines(problems, width)), warnings);
        frame.render_widget(Paragraph::new(self.tabs()), tabs);
        self.draw_table(frame, table);
        frame.render_widget(Paragraph::new(self.key_line()), keys);
        if self.help {
            draw_help(frame);
        }
    }

    fn problem_lines(&self, shown: usize, width: usize) -> Vec<Line<'_>> {
        let style = Style::new().fg(Color::Red);
        let problems = self.rates.server.problems.iter().take(shown);
        let line = |problem| text::fitting(&format!("! {problem}"), width);
        problems.map(|problem| Line::styled(line(problem), style)).collect()
    }

    fn tabs(&self) -> Line<'_> {
        let mut spans = Vec::new();
        for (index, view) in View::ALL.iter().enumerate() {
            let style = match *view == self.view {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            spans.push(Span::styled(format!(" {} {} ", index + 1, view.name()), style));
        }
        if !self.filter.is_empty() || self.editing {
            spans.push(Span::raw(format!("  only {:?}", self.filter)));
        }
        if self.paused {
            spans.push(Span::styled("  stopped", Style::new().add_modifier(Modifier::BOLD)));
        }
        Line::from(spans)
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let mut shown: Vec<[String; 8]> = self.rows().iter().map(|row| text::cells(row)).collect();
        if self.names {
            // those that can be on the screen: the others are asked for when somebody looks at them
            let first = self.table.offset();
            for cells in shown.iter_mut().skip(first).take(area.height.into()) {
                cells[0] = host_names::beside_short(&cells[0]);
            }
        }
        let columns = self.view.columns();
        let widths = column_widths(&shown, columns, area.width);
        let sorted_by = self.sorted_by();
        let aligned = |column: usize, text: String| {
            let line = Line::raw(text);
            Cell::from(if column == 0 || column == NOTE { line } else { line.right_aligned() })
        };
        let heading = |column: &usize| {
            let column = *column;
            let mark = match (column == sorted_by, self.ascending) {
                (true, true) => "▴",
                (true, false) => "▾",
                (false, _) => "",
            };
            aligned(column, format!("{}{mark}", text::HEADINGS[column]))
        };
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        let header = TableRow::new(columns.iter().map(heading)).style(style);
        let rows = shown.iter().map(|cells| {
            let cell = |column: &usize| {
                let text = text::fitting(&cells[*column], widths[*column].into());
                aligned(*column, text)
            };
            TableRow::new(columns.iter().map(cell).collect::<Vec<_>>())
        });
        let shown_widths = columns.iter().map(|column| Constraint::Length(widths[*column]));
        let table = Table::new(rows, shown_widths)
            .header(header)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
    }

    fn key_line(&self) -> Line<'_> {
        if self.editing {
            return Line::raw(format!("show only rows with: {}_  (Enter, Esc)", self.filter));
        }
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let keys = [
            ("F1", "Help "),
            ("Tab", "View "),
            ("F4", "Filter "),
            ("F6", "Sort "),
            ("I", "Invert "),
            ("Z", "Stop "),
            ("F10", "Quit"),
        ];
        let spans =
            keys.iter().flat_map(|(key, what)| [Span::raw(*key), Span::styled(*what, reversed)]);
        Line::from(spans.collect::<Vec<_>>())
    }
}

/// The widths of all columns, where these are shown: the name has what it needs, the note what is left.
fn column_widths(rows: &[[String; 8]], shown: &[usize], width: u16) -> [u16; 8] {
    let widest = rows.iter().map(|cells| cells[0].chars().count()).max().unwrap_or(0);
    let name = u16::try_from(widest.clamp(10, 32)).unwrap_or(32);
    let mut widths = [name, 8, 7, 9, 9, 8, 8, 0];
    // a space between two columns
    let taken = shown.iter().map(|column| widths[*column] + 1).sum::<u16>() - 1;
    widths[NOTE] = width.saturating_sub(taken).max(4);
    widths
}

fn draw_help(frame: &mut Frame<'_>) {
    let width = KEYS.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let lines: Vec<Line<'_>> =
        KEYS.iter().map(|(key, what)| Line::raw(format!(" {key:width$}  {what}"))).collect();
    let area = frame.area();
    let height = u16::try_from(lines.len() + 2).unwrap_or(area.height).min(area.height);
    let place = Rect { y: area.height.saturating_sub(height) / 2, height, ..area };
    frame.render_widget(Clear, place);
    let block = ratatui::widgets::Block::bordered().title(" keys; any key closes this ");
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

#[cfg(test)]
mod tests {
    use super::{Screen, View};
    use crate::top::samples::sample;
    use admin::rates::Watcher;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn drawn(screen: &mut Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content.chunks(80);
        let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect();
        rows.map(line).collect::<Vec<String>>().join("\n")
    }

    fn press(screen: &mut Screen, code: KeyCode) -> bool {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn screen() -> (Screen, Watcher) {
        let mut watcher = Watcher::default();
        let mut screen = Screen::new(watcher.take(sample(10_000, 1000), 9), View::Clients, false);
        screen.take(watcher.take(sample(12_000, 3000), 9));
        (screen, watcher)
    }

    #[test]
    fn the_screen_fits_80_columns_and_24_lines() {
        let (mut screen, _) = screen();
        let text = drawn(&mut screen);
        for part in [
            "bowline 1.2.3",
            "calls 1 000/s",
            "! look here",
            "1 clients",
            "192.0.2.7",
            "CALLS/s▾",
            "F10Quit",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        for view in View::ALL {
            screen.view = view;
            let text = drawn(&mut screen);
            assert!(text.contains(view.name()), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        let (mut screen, _) = screen();
        assert!(!drawn(&mut screen).contains('…'));
        let clients = &mut screen.rates.clients;
        clients[0].note = "waits for the file system: nfs v3 READ of /srv/data, 12 s".to_owned();
        screen.rates.server.problems[0] = "look here ".repeat(10);
        let text = drawn(&mut screen);
        let is_marked = |line: &str| line.ends_with('…') && line.chars().count() == 80;
        for part in ["192.0.2.7", "! look here"] {
            let line = text.lines().find(|line| line.starts_with(part)).unwrap();
            assert!(is_marked(line), "{line}");
        }
    }

    #[test]
    fn keys_change_the_view_the_order_and_the_filter() {
        let (mut screen, _) = screen();
        assert!(!press(&mut screen, KeyCode::Tab));
        assert_eq!(screen.view, View::Exports);
        assert!(drawn(&mut screen).contains("/srv/data"));
        press(&mut screen, KeyCode::BackTab);
        press(&mut screen, KeyCode::BackTab);
        assert_eq!(screen.view, View::Calls);
        press(&mut screen, KeyCode::Char('3'));
        assert_eq!(screen.view, View::Operations);
        press(&mut screen, KeyCode::F(6));
        press(&mut screen, KeyCode::Char('i'));
        assert!(drawn(&mut screen).contains("ERR/s▴"));
        press(&mut screen, KeyCode::F(4));
        for letter in "write".chars() {
            press(&mut screen, KeyCode::Char(letter));
        }
        assert!(!drawn(&mut screen).contains("nfs v3 READ"));
        press(&mut screen, KeyCode::Esc);
        assert!(drawn(&mut screen).contains("nfs v3 READ"));
        press(&mut screen, KeyCode::F(1));
        assert!(drawn(&mut screen).contains("any key closes this"));
        press(&mut screen, KeyCode::Char('x'));
        assert!(!drawn(&mut screen).contains("any key closes this"));
        assert!(press(&mut screen, KeyCode::Char('q')));
        assert!(screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn a_paused_screen_does_not_change() {
        let (mut screen, mut watcher) = screen();
        press(&mut screen, KeyCode::Char('Z'));
        screen.take(watcher.take(sample(13_000, 3000), 9));
        assert!(drawn(&mut screen).contains("calls 1 000/s"));
        press(&mut screen, KeyCode::Char('Z'));
        screen.take(watcher.take(sample(14_000, 3000), 9));
        assert!(drawn(&mut screen).contains("calls 0/s"));
    }
}
