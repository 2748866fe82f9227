//! The steps of an explanation, up to the first that refuses.

use admin::api::ExplainStep;

/// A step is refused: the steps up to it are the answer.
pub struct Stop;

/// The steps so far.
#[derive(Default)]
pub struct Steps(Vec<ExplainStep>);

impl Steps {
    fn push(&mut self, step: &str, result: &str, text: String) {
        self.0.push(ExplainStep { step: step.to_owned(), result: result.to_owned(), text });
    }

    /// A step that admits.
    pub fn ok(&mut self, step: &str, text: impl Into<String>) {
        self.push(step, "ok", text.into());
    }

    /// What does not decide.
    pub fn note(&mut self, step: &str, text: impl Into<String>) {
        self.push(step, "note", text.into());
    }

    /// Those of another part after these.
    pub fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// For the answer.
    pub fn into_list(self) -> Vec<ExplainStep> {
        self.0
    }

    /// The text of the last step.
    #[cfg(test)]
    pub fn last_text(&self) -> String {
        self.0.last().map(|step| step.text.clone()).unwrap_or_default()
    }

    /// The step that refuses.
    pub fn no(&mut self, step: &str, text: impl Into<String>) -> Stop {
        self.push(step, "no", text.into());
        Stop
    }
}
